// Composer: where a message is written. Enter sends it, Shift+Enter begins a new line. What is half written
// is kept in this tab. Knows no request.

import { Component, createRef, type JSX } from "preact";

const BYTES_MAX = 128 * 1024;
const NAME_KEY = "onceward.chat.name";
const DRAFT_KEY = "onceward.chat.draft.";
const NAME_CHARACTERS_MAX = 200;
const ANONYMOUS = "user";

interface Props {
  /** Where it can be found, to give it the focus or a text. */
  place: { current: Composer | null };
  group: string;
  /** What calls the agent. */
  hint: string;
  send: (name: string, text: string) => void;
}

export class Composer extends Component<Props, { problem: string }> {
  override state = { problem: "" };
  readonly #form = createRef<HTMLFormElement>();
  readonly #text = createRef<HTMLTextAreaElement>();
  readonly #name = createRef<HTMLInputElement>();

  override componentDidMount(): void {
    this.props.place.current = this;
    this.#draft.value = recall(sessionStorage, DRAFT_KEY + this.props.group);
    this.#grow();
  }

  focus(): void {
    this.#draft.focus();
    this.#grow();
  }

  /** Put a text back, before whatever is being written. */
  takeBack(text: string): void {
    const { value } = this.#draft;
    this.#draft.value = value ? `${text}\n${value}` : text;
    this.#changed();
    this.focus();
  }

  override render(): JSX.Element {
    const { problem } = this.state;
    return (
      <form ref={this.#form} class="composer" onSubmit={this.#submit}>
        <div class="field">
          <label for="composer-text">Message</label>
          <textarea
            ref={this.#text}
            id="composer-text"
            rows={1}
            required
            aria-describedby="composer-hint composer-error"
            aria-invalid={problem !== ""}
            onKeyDown={this.#press}
            onInput={this.#changed}
          />
        </div>
        <button type="submit" class="main">Send</button>
        <div class="name">
          <label for="composer-name">Your name</label>
          <input
            ref={this.#name}
            id="composer-name"
            autoComplete="nickname"
            maxLength={NAME_CHARACTERS_MAX}
            defaultValue={recall(localStorage, NAME_KEY) || ANONYMOUS}
            onChange={(event) => keep(localStorage, NAME_KEY, event.currentTarget.value.trim())}
          />
        </div>
        <p id="composer-hint" class="hint">
          <span class="keys">Enter sends, Shift+Enter begins a new line. </span>
          {this.props.hint}
        </p>
        <p id="composer-error" class="field-error" role="alert">{problem}</p>
      </form>
    );
  }

  get #draft(): HTMLTextAreaElement {
    const found = this.#text.current;
    if (!found) throw new Error("the composer is not on the page");
    return found;
  }

  readonly #press = (event: KeyboardEvent): void => {
    // Enter also ends the choice of a character in some writing systems.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#form.current?.requestSubmit();
  };

  readonly #submit = (event: Event): void => {
    event.preventDefault();
    const text = this.#draft.value;
    if (!text.trim()) return;
    const size = new TextEncoder().encode(text).length;
    if (size > BYTES_MAX) {
      const tooLong = `This has ${Math.ceil(size / 1024)} kB, and a message may have ${BYTES_MAX / 1024}.`;
      this.setState({ problem: `${tooLong} Send it in parts, or put it into a file.` });
      return;
    }
    this.#draft.value = "";
    this.#changed();
    this.props.send(this.#name.current?.value.trim() || ANONYMOUS, text);
    this.#draft.focus();
  };

  readonly #changed = (): void => {
    this.setState({ problem: "" });
    keep(sessionStorage, DRAFT_KEY + this.props.group, this.#draft.value);
    this.#grow();
  };

  /** As many lines as are written, up to what the sheet allows. */
  #grow(): void {
    const text = this.#draft;
    text.rows = 1;
    const line = Number.parseFloat(getComputedStyle(text).lineHeight);
    const spare = text.scrollHeight - text.clientHeight;
    if (spare > 0 && line > 0) text.rows = 1 + Math.ceil(spare / line);
  }
}

function recall(storage: Storage, key: string): string {
  try {
    return storage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function keep(storage: Storage, key: string, value: string): void {
  try {
    if (value) storage.setItem(key, value);
    else storage.removeItem(key);
  } catch {
    // Then it is there until the page closes.
  }
}
