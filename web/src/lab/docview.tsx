// Docview: documents side by side: one at a time, plain, rendered in a sandbox, or as a diff, and scrolled together.
// All text is data.

import type { JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, peek } from "../core/api";
import { why } from "../core/patience";
import { Notice } from "../ui/bits";
import { DiffView } from "./diffview";
import { CHARACTERS_MAX, type DocumentPart, type LabDocument } from "./documents";
import { Toggle } from "./parts";

type Mode = "plain" | "rendered" | "diff";

/** `names` are the letters of the sides; a single run has one name, which is not shown. */
export function DocumentView({ documents, names }: { documents: LabDocument[]; names: string[] }): JSX.Element {
  const [at, setAt] = useState(0);
  const [wanted, setMode] = useState<Mode>("plain");
  const [isTogether, setTogether] = useState(true);
  const [pair, setPair] = useState<[number, number]>([0, 1]);
  const document = documents[at]!;
  const { kind } = document;
  const isSeveral = names.length > 1;
  const isText = kind !== "image";
  const mode = (wanted === "rendered" && kind !== "markdown") || (wanted === "diff" && !isText) ? "plain" : wanted;
  const choose = (index: number): void => {
    setAt(index);
    // What cannot be shown in this way is shown plain, and so is the next one.
    setMode(mode);
  };
  const modeToggle = (name: Mode, text: string): JSX.Element => (
    <Toggle key={name} isOn={mode === name} onChange={(isOn) => setMode(isOn ? name : "plain")}>{text}</Toggle>
  );
  return (
    <section class="documents" aria-labelledby="documents-title">
      <h2 id="documents-title">Documents</h2>
      {documents.length < 2 ? <h3>{document.title}</h3> : <DocumentTabs documents={documents} at={at} onChoose={choose} />}
      <div class="row" role="group" aria-label="How to show it">
        {kind === "markdown" && modeToggle("rendered", "Rendered")}
        {isSeveral && isText && modeToggle("diff", "Diff")}
        {mode === "diff" && names.length > 2 && <PairChoice names={names} pair={pair} onChange={setPair} />}
        {isSeveral && isText && mode === "plain" && <Toggle key="together" isOn={isTogether} onChange={setTogether}>Scroll together</Toggle>}
      </div>
      <div class="stage">
        {mode === "diff"
          ? <Difference key={`${at} ${pair.join()}`} document={document} pair={pair} names={names} />
          : <Panes key={`${at} ${mode}`} document={document} names={names} mode={mode} isTogether={isTogether} />}
      </div>
    </section>
  );
}

function DocumentTabs({ documents, at, onChoose }: { documents: LabDocument[]; at: number; onChoose: (index: number) => void }): JSX.Element {
  const list = useRef<HTMLDivElement>(null);
  const choose = (index: number): void => {
    onChoose(index);
    list.current?.querySelectorAll("button")[index]?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose((at + step + documents.length) % documents.length);
  };
  return (
    <div role="tablist" aria-label="Documents" class="document-tabs" ref={list} onKeyDown={onKeyDown}>
      {documents.map((each, index) => (
        <button key={index} type="button" role="tab" aria-selected={index === at} tabIndex={index === at ? 0 : -1} onClick={() => choose(index)}>{each.title}</button>
      ))}
    </div>
  );
}

function PairChoice({ names, pair, onChange }: { names: string[]; pair: [number, number]; onChange: (pair: [number, number]) => void }): JSX.Element {
  const id = useId();
  const choice = (place: 0 | 1, text: string): JSX.Element => (
    <label for={`${id}-${place}`}>
      {text} <select
        id={`${id}-${place}`} value={pair[place]}
        onChange={(event) => {
          const chosen = Number(event.currentTarget.value);
          onChange(place === 0 ? [chosen, pair[1]] : [pair[0], chosen]);
        }}
      >
        {names.map((name, index) => <option key={name} value={index}>{name}</option>)}
      </select>
    </label>
  );
  return <>{choice(0, "of")}{choice(1, "and")}</>;
}

interface PanesProps {
  document: LabDocument;
  names: string[];
  mode: "plain" | "rendered";
  isTogether: boolean;
}

function Panes({ document, names, mode, isTogether }: PanesProps): JSX.Element {
  const scrolling = useMemo(() => new ScrollGroup(), []);
  scrolling.isOn = isTogether;
  return (
    <div class={`panes sides-${names.length}`}>
      {document.parts.map((part, index) => {
        const name = names.length > 1 ? (names[index] ?? "") : "";
        const label = name ? `${name}: ${document.title}` : document.title;
        return (
          <div key={index} class="pane">
            {name && <h3 class="letter">{name}</h3>}
            <div class="pane-body"><Pane part={part} kind={document.kind} label={label} mode={mode} scrolling={scrolling} /></div>
          </div>
        );
      })}
    </div>
  );
}

function Pane({ part, kind, label, mode, scrolling }: { part: DocumentPart; kind: string; label: string; mode: "plain" | "rendered"; scrolling: ScrollGroup }): JSX.Element {
  if (part.problem) return <Notice>{part.problem}</Notice>;
  if (kind === "image") return <Picture src={part.src ?? ""} label={label} />;
  return mode === "rendered" ? <Rendered part={part} label={label} /> : <Plain part={part} label={label} scrolling={scrolling} />;
}

function Picture({ src, label }: { src: string; label: string }): JSX.Element {
  const [isBroken, setBroken] = useState(false);
  if (isBroken) return <Notice kind="warn">The image cannot be shown: the file is damaged, gone, or not an image.</Notice>;
  return <img src={src} alt={`Image, ${label}`} onError={() => setBroken(true)} />;
}

/** A refusal is shown by the page: in the frame it would be the server's own, which may name the run. */
function Rendered({ part, label }: { part: DocumentPart; label: string }): JSX.Element | null {
  const src = `${part.src}?rendered=true`;
  const [turn, setTurn] = useState(0);
  const [status, setStatus] = useState<number | null>(null);
  useEffect(() => {
    let isOver = false;
    peek(src).catch(() => 0).then((found) => { if (!isOver) setStatus(found); });
    return () => {
      isOver = true;
    };
  }, [src, turn]);
  if (status === null) return null;
  if (status === 200) return <iframe sandbox="" src={src} title={`Rendered, ${label}`} />;
  return <Notice kind="warn">The file cannot be rendered. <TryAgain onClick={() => setTurn(turn + 1)} /></Notice>;
}

function Plain({ part, label, scrolling }: { part: DocumentPart; label: string; scrolling: ScrollGroup }): JSX.Element {
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const pane = useRef<HTMLPreElement>(null);
  useEffect(() => {
    let isOver = false;
    part.load?.()
      .then((found) => { if (!isOver) { setText(found); setProblem(null); } })
      .catch((error: unknown) => { if (!isOver) setProblem(messageOf(error)); });
    return () => {
      isOver = true;
    };
  }, [part, turn]);
  useEffect(() => (pane.current ? scrolling.add(pane.current) : undefined), [scrolling, problem]);
  if (problem !== null) {
    return <Notice kind="warn">{`The file cannot be read: ${problem}. You can rate it all the same. `}<TryAgain onClick={() => setTurn(turn + 1)} /></Notice>;
  }
  const cut = text !== null && text.length > CHARACTERS_MAX;
  return (
    <>
      <pre tabIndex={0} role="region" aria-label={label} ref={pane}>{text === null ? "Loading…" : text.slice(0, CHARACTERS_MAX) || "(empty)"}</pre>
      {cut && <Notice>{`Too long to show whole: the first ${CHARACTERS_MAX.toLocaleString("en")} characters of ${text.length.toLocaleString("en")}.`}</Notice>}
    </>
  );
}

function TryAgain({ onClick }: { onClick: () => void }): JSX.Element {
  return <button type="button" onClick={onClick}>Try again</button>;
}

function Difference({ document, pair, names }: { document: LabDocument; pair: [number, number]; names: string[] }): JSX.Element {
  const [texts, setTexts] = useState<[string, string] | null>(null);
  const parts = pair.map((index) => document.parts[index]!) as [DocumentPart, DocumentPart];
  const [problem, setProblem] = useState(parts.find((part) => part.problem)?.problem ?? null);
  useEffect(() => {
    if (problem !== null) return undefined;
    let isOver = false;
    Promise.all(parts.map((part) => part.load?.() ?? ""))
      .then(([left = "", right = ""]) => { if (!isOver) setTexts([left, right]); })
      .catch((error: unknown) => { if (!isOver) setProblem(messageOf(error)); });
    return () => {
      isOver = true;
    };
  }, []);
  if (problem !== null) return <Notice kind="warn">{`There is no diff: ${problem}`}</Notice>;
  if (texts === null) return <p class="hint">Comparing…</p>;
  return <DiffView texts={texts} names={[names[pair[0]] ?? "", names[pair[1]] ?? ""]} />;
}

function messageOf(error: unknown): string {
  if (error instanceof ApiError && error.status === 0) return why(error);
  return error instanceof Error ? error.message : String(error);
}

/** Panes that scroll together: what one shows at a third of its length, the others show too. */
class ScrollGroup {
  isOn = true;
  readonly #panes = new Set<HTMLElement>();
  readonly #expected = new WeakMap<HTMLElement, number>();

  add(pane: HTMLElement): () => void {
    const follow = (): void => this.#follow(pane);
    this.#panes.add(pane);
    pane.addEventListener("scroll", follow);
    return () => {
      this.#panes.delete(pane);
      pane.removeEventListener("scroll", follow);
    };
  }

  #follow(pane: HTMLElement): void {
    const ours = this.#expected.get(pane);
    this.#expected.delete(pane);
    if (!this.isOn || (ours !== undefined && Math.abs(ours - pane.scrollTop) <= 1)) return;
    const share = pane.scrollTop / Math.max(1, pane.scrollHeight - pane.clientHeight);
    for (const other of this.#panes) {
      const top = Math.round(share * (other.scrollHeight - other.clientHeight));
      if (other === pane || Math.abs(other.scrollTop - top) <= 1) continue;
      this.#expected.set(other, top);
      other.scrollTop = top;
    }
  }
}
