// Log: what was said, in the order of its numbers, and below it what is on its way. Stays where it is read,
// and follows what is new only when its end is in sight. Knows no request.

import { Component, type ComponentChildren, createRef, type JSX } from "preact";
import { plural, when as momentOf } from "../core/format";
import { type Item, nameOf } from "./models";
import type { Outgoing } from "./unsent";

const NEAR_PX = 60;
const sameDay = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const otherDay = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const MAYBE = "The channel did not say whether it has shown this.";

interface Props {
  label: string;
  items: Item[];
  outgoing: Outgoing[];
  /** Asked for what was said before; null when there is nothing. */
  onEarlier: (() => void) | null;
  /** Asked to send one now that was refused, or that waits. */
  onRetry: (id: string) => void;
  onTakeBack: (message: Outgoing) => void;
}

/** How it was scrolled before it changed. */
interface Scrolled {
  isAtEnd: boolean;
  height: number;
  top: number;
  /** Whether the button for what was said before had the focus. */
  isAsking: boolean;
}

export class Log extends Component<Props, { unseen: number; isReady: boolean }> {
  override state = { unseen: 0, isReady: false };
  readonly #scroller = createRef<HTMLDivElement>();
  readonly #earlier = createRef<HTMLButtonElement>();
  /** Whether the end stays in sight. */
  #follows = true;
  #resized: ResizeObserver | null = null;

  override componentDidMount(): void {
    this.#resized = new ResizeObserver(() => this.#follows && this.#toEnd());
    if (this.#scroller.current) this.#resized.observe(this.#scroller.current);
    this.#toEnd();
    // What is there is read aloud only when it is new.
    this.setState({ isReady: true });
  }

  override componentWillUnmount(): void {
    this.#resized?.disconnect();
  }

  override getSnapshotBeforeUpdate(): Scrolled {
    const { scrollHeight: height = 0, scrollTop: top = 0 } = this.#scroller.current ?? {};
    const isAsking = this.#earlier.current !== null && document.activeElement === this.#earlier.current;
    return { isAtEnd: this.#isAtEnd, height, top, isAsking };
  }

  override componentDidUpdate(before: Props, _: unknown, { isAtEnd, height, top, isAsking }: Scrolled): void {
    const { items, outgoing, onEarlier } = this.props;
    const scroller = this.#scroller.current;
    if (!scroller) return;
    // What is hidden gives the focus away, and it should stay here.
    if (isAsking && !onEarlier) scroller.focus();
    const fresh = before.items === items ? [] : added(before.items, items);
    const first = before.items[0];
    const isOld = first !== undefined && fresh.length > 0 && fresh.every((each) => each.seq < first.seq);
    if (isOld) scroller.scrollTop = top + scroller.scrollHeight - height;
    else if (isAtEnd || outgoing.some(({ id }) => !before.outgoing.some((each) => each.id === id))) this.#toEnd();
    else if (fresh.length) this.setState(({ unseen }) => ({ unseen: unseen + fresh.length }));
  }

  override render(): JSX.Element {
    const { label, items, outgoing, onEarlier, onRetry, onTakeBack } = this.props;
    const { unseen, isReady } = this.state;
    return (
      <div class="talk-frame">
        <div
          ref={this.#scroller}
          class="talk-log"
          role="log"
          aria-label={label}
          aria-busy={!isReady}
          tabIndex={0}
          onScroll={this.#scrolled}
        >
          <p class="above">
            <button ref={this.#earlier} type="button" hidden={!onEarlier} onClick={() => onEarlier?.()}>Show earlier messages</button>
          </p>
          {items.length + outgoing.length === 0 && <p class="hint silence">Nothing was said yet.</p>}
          <div class="items">
            {items.map((each) => <Said key={nameOf(each)} item={each} />)}
          </div>
          <div class="items">
            {outgoing.map((each, at) => {
              const isBehind = outgoing.slice(0, at).some(({ trouble }) => trouble);
              return <OnItsWay key={each.id} message={each} isBehind={isBehind} onRetry={onRetry} onTakeBack={onTakeBack} />;
            })}
          </div>
        </div>
        <button type="button" class="jump" hidden={unseen === 0} onClick={this.#toEnd}>{plural(unseen, "new message")} ↓</button>
      </div>
    );
  }

  get #isAtEnd(): boolean {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = this.#scroller.current ?? {};
    return scrollHeight - scrollTop - clientHeight < NEAR_PX;
  }

  readonly #toEnd = (): void => {
    const scroller = this.#scroller.current;
    if (scroller) scroller.scrollTop = scroller.scrollHeight;
    this.#see();
  };

  readonly #scrolled = (): void => {
    this.#follows = this.#isAtEnd;
    if (this.#follows) this.#see();
  };

  #see(): void {
    if (this.state.unseen > 0) this.setState({ unseen: 0 });
  }
}

function added(before: Item[], now: Item[]): Item[] {
  const known = new Set(before.map(nameOf));
  return now.filter((each) => !known.has(nameOf(each)));
}

/** Something that was said; drawn again only when it has changed, because there may be thousands. */
class Said extends Component<{ item: Item }> {
  override shouldComponentUpdate({ item }: { item: Item }): boolean {
    return item !== this.props.item;
  }

  override render(): JSX.Element {
    const { item } = this.props;
    if (item.type === "reply") {
      const maybe = !item.isCertain && <span class="chip waits" title={MAYBE}><span aria-hidden="true">⚠</span> maybe delivered</span>;
      return <article class="said reply"><Head who="Agent" at={item.at}>{maybe}</Head><Text text={item.text} /></article>;
    }
    const { sender, text, timestamp, receivedAt, editedAt } = item;
    const at = timestamp !== null && Number.isFinite(Date.parse(timestamp)) ? timestamp : receivedAt;
    const edited = editedAt && <span class="hint" title={exactly(editedAt)}>edited</span>;
    return <article class="said message"><Head who={sender} at={at}>{edited}</Head><Text text={text} /></article>;
  }
}

interface Way {
  message: Outgoing;
  /** One before it is not through. */
  isBehind: boolean;
  onRetry: (id: string) => void;
  onTakeBack: (message: Outgoing) => void;
}

function OnItsWay({ message, isBehind, onRetry, onTakeBack }: Way): JSX.Element {
  const { id, sender, text, timestamp, trouble, refused, isSent } = message;
  return (
    <article class="said message own">
      <Head who={sender} at={timestamp} />
      <Text text={text} />
      {refused ? (
        <p class="note bad">
          ⚠ Not sent. {refused}{" "}
          <button type="button" onClick={() => onRetry(id)}>Send again</button>{" "}
          <button type="button" onClick={() => onTakeBack(message)}>Take back</button>
        </p>
      ) : trouble ? (
        <p class="note waits">↻ Not sent yet, trying again: {trouble}. <button type="button" onClick={() => onRetry(id)}>Try now</button></p>
      ) : isBehind ? (
        <p class="note waits">↻ Not sent yet: it follows the one before.</p>
      ) : (
        !isSent && <p class="note">Sending…</p>
      )}
    </article>
  );
}

function Head({ who, at, children }: { who: string; at: string; children?: ComponentChildren }): JSX.Element {
  const moment = Date.parse(at);
  const isToday = new Date(moment).toDateString() === new Date().toDateString();
  const time = Number.isFinite(moment) ? (isToday ? sameDay : otherDay).format(moment) : "";
  return (
    <p class="who">
      <strong>{who}</strong> <time dateTime={at} title={exactly(at)}>{time}</time> {children}
    </p>
  );
}

function Text({ text }: { text: string }): JSX.Element {
  return <p class="text">{text}</p>;
}

function exactly(at: string): string {
  return momentOf(at).absolute;
}
