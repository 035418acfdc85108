"""The page of alerts and the groups of the first page, as somebody uses them; alerts go to a real receiver."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import Desk
from tests.contract.server import Api, running
from tests.patience import wait
from tests.receiver import receiving
from vitrina.settings import Destination


def test_a_destination_is_tried_by_its_button_and_its_answer_is_there_to_read(api: Api, desk: Desk) -> None:
    with receiving() as receiver:
        receiver.status, receiver.reply = 200, b"thank you"
        api.lab.configure(alerts={"ops": Destination.model_validate({"url": receiver.url, "format": "teams"})})
        with running(api.lab):
            wait(lambda: api.get("/alerts/destinations"))
            wait(lambda: [r for r in api.get("/runners") if r["alive"]])
            desk.sign_in("operator")
            page = desk.open("/alerts")
            expect(page.get_by_text("Nothing has been told yet.")).to_be_visible()
            # The runner of the module has no destination: whichever answers first, the answer is said.
            button = page.get_by_role("button", name="Test ops")
            for _ in range(10):
                button.click()
                expect(page.locator("#toasts")).to_contain_text(re.compile("ops"))
                if receiver.requests:
                    break
            expect(page.get_by_text("200 thank you")).to_be_visible()
            page.close()
    api.lab.configure(alerts={})


def test_a_group_is_run_at_once_after_a_question(api: Api, desk: Desk) -> None:
    for name, labels in (("one", ["team:search"]), ("two", ["team:search"]), ("three", ["team:ads"])):
        api.create(name, labels=labels)
    desk.sign_in("operator")
    page = desk.open("/?group=team")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_text("With all team:search").click()
    page.get_by_role("group", name="All with team:search").get_by_role("button", name="Run all").click()
    expect(page.locator("#toasts")).to_contain_text("Done: 2 of 2")
    wait(lambda: all(api.get(f"/pipelines/{name}/status")["last_run"] for name in ("one", "two")))
    assert api.get("/pipelines/three/status")["last_run"] is None
    page.get_by_role("link", name="team:ads").first.click()
    expect(page.locator("[data-row]")).to_have_text(["three"])
    page.close()
