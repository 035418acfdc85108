"""Faults of values: what is wrong with a field, as a part of the sentence that names it. Codes are listed in
docs/reference.md."""

from vitrina.domain.wording import Worded


class Fault(Worded):
    """What a field is, or must be: it stands after the field's name."""

    MISSING = "missing", "is missing"
    UNKNOWN = "unknown", "is not known"
    NEARLY_KNOWN = "nearly_known", "is not known; is {near} meant?"
    TOO_SMALL = "too_small", "must be at least {limit:,}"
    NOT_MORE = "not_more", "must be more than {limit:,}"
    TOO_LARGE = "too_large", "must be at most {limit:,}"
    NOT_LESS = "not_less", "must be less than {limit:,}"
    EMPTY = "empty", "is empty"
    FEW_CHARACTERS = "few_characters", "has fewer than {limit:,} characters"
    MANY_CHARACTERS = "many_characters", "has more than {limit:,} characters"
    FEW_ITEMS = "few_items", "has fewer than {limit:,} items"
    MANY_ITEMS = "many_items", "has more than {limit:,} items"
    OTHER_PATTERN = "other_pattern", "must look like {pattern}"
    NO_JSON = "no_json", "is no JSON: {error}"
    NO_CHOICE = "no_choice", "must be {expected}, not {found}"
    NO_NUMBER = "no_number", "must be a number, not {found}"
    NO_WHOLE_NUMBER = "no_whole_number", "must be a whole number, not {found}"
    NO_TEXT = "no_text", "must be text, not {found}"
    BARE_TEXT = "bare_text", "must be text, not {found}: put it in quotes"
    NO_LIST = "no_list", "must be a list, such as [a, b], not {found}"
    NO_MAPPING = "no_mapping", "must be a mapping, such as {{a: b}}, not {found}"
    NO_BOOLEAN = "no_boolean", "must be true or false, not {found}"
    NO_UUID = "no_uuid", "must be a UUID, such as 6b9f2a7e-1c1d-4f6e-9f0e-3a2f5c8d7b10, not {found}"
    OTHERWISE = "otherwise", "{error}"
    TOO_DEEP = "too_deep", "is nested deeper than {limit}"
    NO_LABEL = "no_label", "must be name:value or a name alone, without spaces, commas and quotes, not {text!r}"
    MANY_LABELS = "many_labels", "must be {most} at most, not {count}"


class Rule(Worded):
    """What a field's own rule says: it stands after the field's name and a colon."""

    EMPTY_TARGET = "empty_target", "a target is empty"
    NAMED_TWICE = "named_twice", "{name!r} is named twice"
    MANY_TARGETS = "many_targets", "{count} targets, and {most} are the most"
    CHECKS_OF_ONE_NAME = "checks_of_one_name", "two checks are called {name!r}"
    MANY_CHECKS = "many_checks", "{count} checks, and {most} are the most"
    NO_RANGE = "no_range", "needs at_least, at_most or both"
    RANGE_TURNED = "range_turned", "at_least is more than at_most"
    ASKS_NOTHING = "asks_nothing", "asks one of {kinds}, not none of them"
    ASKS_SEVERAL = "asks_several", "asks one of {kinds}, not {asked}"
    OTHER = "other", "{error}"
    NO_VALUES = "no_values", "accepted_values of {column} names no value"
    NO_PARTITION = (
        "no_partition",
        "{text!r} is none of month(column), bucket(16, column), truncate(4, column), or a column",
    )
    NO_WAY_TO_DIVIDE = (
        "no_way_to_divide",
        "{text!r} is none of month(column), bucket(16, column), truncate(4, column), or a column; there are {known}",
    )
    NUMBER_GIVEN = "number_given", "{text!r}: {how} takes a column and no number"
    NUMBER_OUTSIDE = (
        "number_outside",
        "{text!r}: {how} takes a number from 1 to {most:,} and a column: {how}(16, column)",
    )
    MANY_PARTS = "many_parts", "{count} parts, and {most} are the most"
    COLUMN_DIVIDES_TWICE = (
        "column_divides_twice",
        "column {column!r} is named twice, and one way of it is enough",
    )


class Part(Worded):
    """Of a sentence about a field: where it is, and what stands there."""

    SENTENCE = "sentence", "{where} {fault}"
    ABOUT = "about", "{where}: {fault}"
    WITH_WAY = "with_way", "{message} — {way}"
    WITHIN = "within", "{part} of {whole}"
    ITEM = "item", "item {number}"
    NAME_IN = "name_in", "a name in {whole}"
    THIS_TEXT = "this_text", "this text"
    A_LIST = "a_list", "a list"
    A_MAPPING = "a_mapping", "a mapping"
    A_SET = "a_set", "a set"
    BYTES = "bytes", "bytes"
    A_DATE = "a_date", "a date"
    THIS = "this", "this"


FAULTS: tuple[Worded, ...] = (*Fault, *Rule, *Part)
