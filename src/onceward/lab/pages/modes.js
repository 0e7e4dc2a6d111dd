// Modes: how strict a page is, as its address says it. The names are those of the original Lab's page.

const YES = ["1", "true", "yes", "on"];

/** `requireOverall`: every run needs an overall rating. `goodBadMode`: there is a winner, neither a tie nor none. */
export function modes(query = location.search) {
  const given = new URLSearchParams(query);
  const is = (name) => YES.includes((given.get(name) ?? "").toLowerCase());
  return { requireOverall: is("requireOverall"), goodBadMode: is("goodBadMode") };
}
