// Types: what the server tells of workers and of the leases they held.

import type { Schemas } from "../../api/types";

export type Lease = Schemas["WorkerLease"];
export type Worker = Schemas["WorkerItem"];
export type Bar = Schemas["LaneBar"];
export type Mark = Schemas["LaneMark"];
export type Workers = Schemas["Workers"];
