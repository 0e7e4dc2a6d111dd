// Models: what the server tells about the memory.

export interface Found {
  name: string;
  entity_type: string;
  created_at: string;
  observations_count: number | null;
  headline: string | null;
}

export interface Observation {
  id: number;
  content: string;
  is_cut: boolean;
  /** What it says, in words. */
  headline: string;
  kind: string | null;
  ts: string | null;
  source: string;
  run: string | null;
  created_at: string;
}

export interface Relation {
  from: string;
  to: string;
  relation_type: string;
  source: string;
  run: string | null;
}

export interface Change {
  id: number | null;
  at: string;
  action: "created" | "deleted" | "restored";
  what: "entity" | "observation" | "relation";
  text: string;
  source: string;
  run: string | null;
}

export interface Entity {
  name: string;
  entity_type: string;
  source: string;
  run: string | null;
  created_at: string;
  observations: Observation[];
  relations: Relation[];
  history: Change[];
  is_deleted: boolean;
  /** Whether there are more than are listed. */
  is_cut: boolean;
}

export interface Neighbourhood {
  nodes: { name: string; entity_type: string; hops: number }[];
  edges: { from: string; to: string; relation_type: string }[];
  is_cut: boolean;
}

/** Types that capturing uses; others appear as soon as they are seen. */
export const KNOWN_TYPES = ["Command", "Concept", "Dependency", "Doc", "Error", "File", "Fix", "Mode", "Run", "Tool", "Warning"];
