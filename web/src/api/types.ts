// Types: what the server answers and what it is sent. `schema.d.ts` is generated from the server's OpenAPI
// document (`make lint-web`); a screen names a shape once, `type Run = Schemas["LabRun"]`, and never writes it again.

import type { components } from "./schema";

export type Schemas = components["schemas"];
