"""Reading the model's replies: the two reply formats of Terminus-2, and the rules both share."""

from harness.parsing.durations import DEFAULT_DURATION, MAX_DURATION, clamp_duration
from harness.parsing.json_reply import parse_json
from harness.parsing.xml_reply import parse_xml, salvage_xml

__all__ = ["DEFAULT_DURATION", "MAX_DURATION", "clamp_duration", "parse_json", "parse_xml", "salvage_xml"]
