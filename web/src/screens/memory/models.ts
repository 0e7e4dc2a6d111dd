// Models: what the server tells about the memory.

import type { Schemas } from "../../api/types";

export type Found = Schemas["EntityCard"];
export type Observation = Schemas["ObservationItem"];
export type Relation = Schemas["RelationItem"];
export type Change = Schemas["EntityChange"];
export type Entity = Schemas["EntityItem"];
export type Neighbourhood = Schemas["NeighbourhoodGraph"];

/** Types that capturing uses; others appear as soon as they are seen. */
export const KNOWN_TYPES = ["Command", "Concept", "Dependency", "Doc", "Error", "File", "Fix", "Mode", "Run", "Tool", "Warning"];
