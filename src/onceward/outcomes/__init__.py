"""Once: has this work an outcome already? Then give that outcome, else claim, run and record."""

from onceward.outcomes.effects import effect as effect
from onceward.outcomes.middleware import IdempotencyMiddleware as IdempotencyMiddleware
from onceward.outcomes.models import Ambiguous as Ambiguous
from onceward.outcomes.models import Claim as Claim
from onceward.outcomes.models import Done as Done
from onceward.outcomes.models import EffectRecord as EffectRecord
from onceward.outcomes.models import EffectState as EffectState
from onceward.outcomes.models import Expired as Expired
from onceward.outcomes.models import Failed as Failed
from onceward.outcomes.models import Failure as Failure
from onceward.outcomes.models import Fence as Fence
from onceward.outcomes.models import Fresh as Fresh
from onceward.outcomes.models import InFlight as InFlight
from onceward.outcomes.models import Listed as Listed
from onceward.outcomes.models import Mismatch as Mismatch
from onceward.outcomes.models import NotDone as NotDone
from onceward.outcomes.models import NotStored as NotStored
from onceward.outcomes.models import OutcomeState as OutcomeState
from onceward.outcomes.models import Pruned as Pruned
from onceward.outcomes.models import Record as Record
from onceward.outcomes.models import Replay as Replay
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
    "Failure",
    "Fence",
    "Fresh",
    "IdempotencyMiddleware",
    "InFlight",
    "Listed",
    "Mismatch",
    "NotDone",
    "NotStored",
    "OutcomeState",
    "Outcomes",
    "Pruned",
    "Record",
    "Replay",
    "effect",
    "once",
]
