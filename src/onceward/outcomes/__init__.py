"""Outcomes: idempotent calls. Replay a recorded outcome, or claim the key, run and record."""

from onceward.outcomes.effects import effect as effect
from onceward.outcomes.middleware import IdempotencyMiddleware as IdempotencyMiddleware
from onceward.outcomes.models import Ambiguous as Ambiguous
from onceward.outcomes.models import Claim as Claim
from onceward.outcomes.models import Done as Done
from onceward.outcomes.models import EffectRecord as EffectRecord
from onceward.outcomes.models import EffectState as EffectState
from onceward.outcomes.models import Expired as Expired
from onceward.outcomes.models import Failed as Failed
from onceward.outcomes.models import Fence as Fence
from onceward.outcomes.models import Fresh as Fresh
from onceward.outcomes.models import InFlight as InFlight
from onceward.outcomes.models import Mismatch as Mismatch
from onceward.outcomes.models import NotDone as NotDone
from onceward.outcomes.models import NotStored as NotStored
from onceward.outcomes.models import OutcomeListItem as OutcomeListItem
from onceward.outcomes.models import OutcomeRecord as OutcomeRecord
from onceward.outcomes.models import OutcomeState as OutcomeState
from onceward.outcomes.models import PruneCounts as PruneCounts
from onceward.outcomes.models import Replay as Replay
from onceward.outcomes.models import StoredFailure as StoredFailure
from onceward.outcomes.once import once as once
from onceward.outcomes.outcomes import Outcomes as Outcomes

__all__ = [
    "Ambiguous",
    "Claim",
    "Done",
    "EffectRecord",
    "EffectState",
    "Expired",
    "Failed",
    "Fence",
    "Fresh",
    "IdempotencyMiddleware",
    "InFlight",
    "Mismatch",
    "NotDone",
    "NotStored",
    "OutcomeListItem",
    "OutcomeRecord",
    "OutcomeState",
    "Outcomes",
    "PruneCounts",
    "Replay",
    "StoredFailure",
    "effect",
    "once",
]
