"""What goes in and out as JSON, by what it is about."""

from vitrina.control.api.models.body import ProblemModel as ProblemModel
from vitrina.control.api.models.pipelines import PauseBody as PauseBody
from vitrina.control.api.models.pipelines import PipelineOut as PipelineOut
from vitrina.control.api.models.pipelines import PipelinePage as PipelinePage
from vitrina.control.api.models.pipelines import PipelinePatch as PipelinePatch
from vitrina.control.api.models.pipelines import Reloaded as Reloaded
from vitrina.control.api.models.pipelines import Requested as Requested
from vitrina.control.api.models.pipelines import RunBody as RunBody
from vitrina.control.api.models.pipelines import StateOut as StateOut
from vitrina.control.api.models.pipelines import StatusOut as StatusOut
from vitrina.control.api.models.pipelines import Validated as Validated
from vitrina.control.api.models.pipelines import VersionOut as VersionOut
from vitrina.control.api.models.requests import PreviewBody as PreviewBody
from vitrina.control.api.models.requests import PreviewColumn as PreviewColumn
from vitrina.control.api.models.requests import PreviewOut as PreviewOut
from vitrina.control.api.models.requests import ReconcileBody as ReconcileBody
from vitrina.control.api.models.requests import RepairBody as RepairBody
from vitrina.control.api.models.requests import RequestOut as RequestOut
from vitrina.control.api.models.runs import EventOut as EventOut
from vitrina.control.api.models.runs import RunOut as RunOut
from vitrina.control.api.models.runs import RunPage as RunPage
from vitrina.control.api.models.runs import RunWithAttempts as RunWithAttempts
from vitrina.control.api.models.system import Health as Health
from vitrina.control.api.models.system import LineageOut as LineageOut
from vitrina.control.api.models.system import RunnerOut as RunnerOut
