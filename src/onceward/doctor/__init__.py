"""Doctor: check whether machine, installation and store meet Onceward's requirements.

Read-only, except for one probe file that is removed again.
"""

from onceward.doctor.installation import examine_installation
from onceward.doctor.machine import examine_machine
from onceward.doctor.models import Check, Status
from onceward.doctor.store_checks import examine_store, examine_url

__all__ = [
    "Check",
    "Status",
    "examine_installation",
    "examine_machine",
    "examine_store",
    "examine_url",
]
