// Types: what the server tells of workers and of the leases they held.

export interface Lease {
  cursor: string;
  epoch: number;
  expires_in_seconds: number;
  lease_seconds: number | null;
  is_held: boolean;
}

export interface Worker {
  worker: string;
  host: string | null;
  pid: number | null;
  started_at: string | null;
  seen_at: string | null;
  seen_seconds_ago: number | null;
  is_silent: boolean;
  stopped_at: string | null;
  consumers: string[];
  leases: Lease[];
}

export interface Bar {
  cursor: string;
  epoch: number;
  from: string;
  to: string | null;
  ending: string | null;
  state: "held" | "ended" | "stolen" | "expired";
}

export interface Mark {
  at: string;
  kind: "steal" | "refused" | "expiry";
  cursor: string;
  epoch: number;
  text: string;
}

export interface Workers {
  workers: Worker[];
  lanes: { worker: string; bars: Bar[]; marks: Mark[] }[];
  from: string;
  to: string;
  as_of: string;
}
