"""Keys: derive idempotency keys for commands and calls from canonical JSON."""

from onceward.keys.canonical import RULES_VERSION as RULES_VERSION
from onceward.keys.canonical import canonical_json as canonical_json
from onceward.keys.canonical import compact_json as compact_json
from onceward.keys.canonical import loads as loads
from onceward.keys.command import CommandContent as CommandContent
from onceward.keys.command import idempotency_key as idempotency_key
from onceward.keys.explain import Explanation as Explanation
from onceward.keys.explain import KeyDifference as KeyDifference
from onceward.keys.explain import explain as explain
from onceward.keys.lint import Finding as Finding
from onceward.keys.lint import lint as lint
from onceward.keys.snapshot import Snapshot as Snapshot
from onceward.keys.snapshot import TrackedFile as TrackedFile
from onceward.keys.snapshot import snapshot as snapshot
from onceward.keys.stable import canonical_command as canonical_command
from onceward.keys.stable import command_key as command_key
from onceward.keys.stable import concept_key as concept_key
from onceward.keys.stable import dependency_key as dependency_key
from onceward.keys.stable import doc_key as doc_key
from onceward.keys.stable import envelope_fingerprint as envelope_fingerprint
from onceward.keys.stable import error_key as error_key
from onceward.keys.stable import file_key as file_key
from onceward.keys.stable import fix_key as fix_key
from onceward.keys.stable import fp8 as fp8
from onceward.keys.stable import mode_key as mode_key
from onceward.keys.stable import normalize_message as normalize_message
from onceward.keys.stable import run_key as run_key
from onceward.keys.stable import sha8 as sha8
from onceward.keys.stable import tool_key as tool_key
from onceward.keys.stable import warning_key as warning_key

__all__ = [
    "RULES_VERSION",
    "CommandContent",
    "Explanation",
    "Finding",
    "KeyDifference",
    "Snapshot",
    "TrackedFile",
    "canonical_command",
    "canonical_json",
    "command_key",
    "compact_json",
    "concept_key",
    "dependency_key",
    "doc_key",
    "envelope_fingerprint",
    "error_key",
    "explain",
    "file_key",
    "fix_key",
    "fp8",
    "idempotency_key",
    "lint",
    "loads",
    "mode_key",
    "normalize_message",
    "run_key",
    "sha8",
    "snapshot",
    "tool_key",
    "warning_key",
]
