// Framing: a page that stands inside the console leaves its own header out, and wears the console's colours.
// Runs before anything is painted, and knows no page. Only pages of this server can be around it.

if (window.parent !== window) {
  const root = document.documentElement;
  const outer = window.parent.document.documentElement;
  const dress = () => {
    if (outer.dataset.theme) root.dataset.theme = outer.dataset.theme;
    else delete root.dataset.theme;
  };
  root.classList.add("framed");
  dress();
  new MutationObserver(dress).observe(outer, { attributeFilter: ["data-theme"] });
}
