// Early: the theme that was chosen, before anything is painted. The only script that the page waits for.

try {
  const wish: unknown = JSON.parse(localStorage.getItem("onceward.theme") ?? "null");
  if (wish === "light" || wish === "dark") document.documentElement.dataset["theme"] = wish;
} catch {
  // No storage: as the system wishes.
}
