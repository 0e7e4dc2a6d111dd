// Login: exchanges the token of the link, or the one that was typed in, for a read cookie, keeps it for this
// tab, and goes on to the page that was asked for.
"use strict";

const form = document.querySelector("form");
const field = document.querySelector("#token");
const problem = document.querySelector("#problem");

/** Take the token out of the address, so that neither the history nor a bookmark keeps it. */
function takeFromAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const token = parts.get("token");
  if (token === null) return null;
  parts.delete("token");
  const rest = parts.toString();
  history.replaceState(null, "", location.pathname + location.search + (rest && `#${rest}`));
  return token.trim();
}

async function logIn(token) {
  problem.textContent = "";
  let answer;
  try {
    answer = await fetch("/api/console/login", { method: "POST", headers: { "X-CM-LAB-TOKEN": token } });
  } catch {
    problem.textContent = "The server cannot be reached.";
    return;
  }
  if (answer.status === 401) {
    problem.textContent = "This is not the server's token. Run onceward token show as the user who runs the server.";
    return;
  }
  if (!answer.ok) {
    problem.textContent = `The server answered ${answer.status}.`;
    return;
  }
  const { token: kept } = await answer.json();
  try {
    sessionStorage.setItem("onceward.token", kept);
  } catch {
    // This browser keeps nothing; a page that changes something asks for the token again.
  }
  location.reload();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void logIn(field.value.trim());
});

function useLink() {
  const given = takeFromAddress();
  if (given) void logIn(given);
}

// The link may be opened in the tab that shows this page already, which loads nothing again.
window.addEventListener("hashchange", useLink);
useLink();
