// Ids: names that nobody has given before.

/** Return a new id; randomUUID exists only on addresses that the browser calls secure. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const raw = crypto.getRandomValues(new Uint8Array(16));
  raw[6] = (raw[6] & 0x0f) | 0x40;
  raw[8] = (raw[8] & 0x3f) | 0x80;
  const hex = [...raw].map((each) => each.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
