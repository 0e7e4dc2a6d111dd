// Main: the page of conversations by itself. Looks at the address, and shows all of them or one; or what went
// wrong when it cannot.

import { type ComponentChildren, type JSX, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, asApiError, loadConfig, takeSettingsFrom } from "../core/api";
import { sentence } from "../core/format";
import { patiently, problemOf } from "../core/patience";
import { startTheme } from "../core/theme";
import { TopBar } from "../ui/standalone";
import { Token } from "../ui/token";
import { Away } from "./away";
import { Conversation } from "./conversation";
import { Beside, Groups } from "./groups";
import type { Settings } from "./models";
import { callOf } from "./states";

const ONE = /^\/chat\/([^/]+)\/?$/;
const RELOAD = "Reload the page; if that does not help, look into the server’s log.";
const MISSING = "Check the address. The conversation may also have been removed, or belong to another server.";
const group = groupOf(location.pathname);

function ChatPage(): JSX.Element {
  const [failure, setFailure] = useState<ApiError | null>(null);
  const fail = (error: unknown): void => setFailure(asApiError(error));
  return (
    <div class={group !== null && !failure ? "page talking" : "page"}>
      <TopBar label="Dispatch"><a href="/chat" aria-current={group === null ? "page" : undefined}>Conversations</a></TopBar>
      <Away />
      <div class="rooms">
        {group !== null && !failure && <Beside current={group} />}
        <main id="main" tabIndex={-1} aria-labelledby="title">
          {failure ? <Failure error={failure} /> : group === null ? <All onFailed={fail} /> : <One name={group} onFailed={fail} />}
        </main>
      </div>
      <Token />
    </div>
  );
}

function All({ onFailed }: { onFailed: (error: unknown) => void }): JSX.Element {
  return (
    <>
      <Title text="Conversations"><p class="subtitle">What do people say to agents, and what do agents answer?</p></Title>
      <Groups onFailed={onFailed} />
    </>
  );
}

function One({ name, onFailed }: { name: string; onFailed: (error: unknown) => void }): JSX.Element {
  const [hint, setHint] = useState("");
  useEffect(() => {
    patiently(() => loadConfig<Settings>())
      .then(({ groups }) => {
        const found = groups.find((each) => each.name === name);
        if (found) setHint(callOf(found));
      })
      .catch(onFailed);
  }, []);
  return (
    <>
      <Title text={name} />
      <div class="talk"><Conversation group={name} hint={hint} isMain onFailed={onFailed} /></div>
    </>
  );
}

function Failure({ error }: { error: ApiError }): JSX.Element {
  const isMissing = error.status === 404;
  return (
    <>
      <Title text={isMissing ? "Not here" : "This page cannot be shown"} />
      <div class="failure">
        <p class="notice warn">⚠ {problemOf(error)} {isMissing ? MISSING : sentence(error.fix ?? RELOAD)}</p>
        <p><a href="/chat">Go to all conversations</a></p>
        {error.status > 0 && <p class="hint">{error.code}, {error.status}</p>}
      </div>
    </>
  );
}

function Title({ text, children }: { text: string; children?: ComponentChildren }): JSX.Element {
  useEffect(() => {
    document.title = `${text} · Conversations`;
  }, [text]);
  return (
    <>
      <h1 id="title" tabIndex={-1}>{text}</h1>
      {children}
    </>
  );
}

function groupOf(path: string): string | null {
  const name = ONE.exec(path)?.[1];
  if (name === undefined) return null;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

startTheme();
takeSettingsFrom("/api/chat/config");
const root = document.getElementById("app");
if (root) render(<ChatPage />, root);
