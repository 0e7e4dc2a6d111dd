// Table: rows of anything. A real table with headings; j and k walk it, x selects; long ones draw only what
// can be seen; an update never moves the focus. On narrow screens rows are cards, which the sheet does.

import type { Signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useKeys } from "../core/keys";
import { arrival, go, Link } from "../core/router";
import { Icon } from "./icons";
import { segments, useWindow } from "./windowing";

export interface Column<R> {
  key: string;
  title: string;
  render: (row: R) => ComponentChildren;
  align?: "end";
  width?: string;
  /** Left out where there is no room. */
  hideNarrow?: boolean;
  /** What `onSort` is called with. */
  sortKey?: string;
}

export interface TableProps<R> {
  label: string;
  columns: Column<R>[];
  rows: R[];
  rowKey: (row: R) => string;
  /** Where a row leads; its first cell becomes the link, so it must not hold one itself. */
  href?: (row: R) => string;
  /** What a row is called by its checkbox; its key when not given. */
  rowName?: (row: R) => string;
  selected?: Signal<Set<string>>;
  sort?: { by: string; onSort: (key: string) => void; isDescending?: boolean };
  empty: ComponentChildren;
  more?: (() => void) | null;
  actions?: (row: R) => ComponentChildren;
}

/** The row where a list was left, by its address. */
const places = new Map<string, { key: string; scroll: number }>();

export function Table<R>(props: TableProps<R>): JSX.Element {
  const { label, columns, rows, rowKey, selected, empty, more } = props;
  const box = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  const active = useRef<string | null>(null);
  const anchor = useRef<string | null>(null);
  const wanted = useRef<string | null>(null);
  const indexOf = (key: string | null): number => (key === null ? -1 : rows.findIndex((row) => rowKey(row) === key));
  const view = useWindow(body, rows.length);

  function move(step: number): void {
    const current = indexOf(focusedKey(body.current) ?? active.current);
    const isInside = focusedKey(body.current) !== null;
    const next = Math.min(rows.length - 1, Math.max(0, current < 0 ? 0 : isInside ? current + step : current));
    const row = rows[next];
    if (row === undefined) return;
    wanted.current = active.current = rowKey(row);
    view.reveal(next);
    focusWanted();
  }

  function focusWanted(): void {
    if (wanted.current === null) return;
    const row = rowElement(body.current, wanted.current);
    if (!row) return;
    (row.querySelector<HTMLElement>("a.row-link") ?? row).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    wanted.current = null;
  }

  function select(key: string | null, isRange: boolean): void {
    if (!selected || key === null) return;
    const chosen = new Set(selected.value);
    // A range from a row that is gone would begin at the top.
    if (isRange && indexOf(anchor.current) >= 0) {
      const [from, to] = [indexOf(anchor.current), indexOf(key)].sort((a, b) => a - b) as [number, number];
      for (const row of rows.slice(from, to + 1)) chosen.add(rowKey(row));
    } else if (!chosen.delete(key)) {
      chosen.add(key);
    }
    anchor.current = key;
    selected.value = chosen;
  }

  useKeys(
    rows.length === 0 ? {} : {
      j: { text: "Next row", run: () => move(1) },
      k: { text: "Previous row", run: () => move(-1) },
      ...(props.href && { Enter: { text: "Open the row", run: () => undefined, isNative: true } }),
      ...(selected && {
        x: { text: "Select the row", run: () => select(focusedKey(body.current), false) },
        "Shift+x": { text: "Select all rows from the last selected one", run: () => select(focusedKey(body.current), true) },
      }),
    },
    "List",
  );

  useWideMark(box, rows.length > 0);
  useFocusKept(body, rows, rowKey);
  usePlace(body, active, wanted, rows.length > 0, (key) => view.reveal(indexOf(key)));
  useEffect(focusWanted);

  if (rows.length === 0 && more) return <SoFar more={more} />;
  if (rows.length === 0) return <>{empty}</>;
  const pinned = view.isOn ? indexOf(active.current) : -1;
  const hasActions = props.actions !== undefined;
  const width = columns.length + (selected ? 1 : 0) + (hasActions ? 1 : 0);
  return (
    <div class="table-box" ref={box}>
      <table aria-label={label} role="table" aria-rowcount={view.isOn ? rows.length + 1 : undefined}>
        <thead role="rowgroup">
          <tr role="row">
            {selected && <th role="columnheader" scope="col" class="pick"><PickAll {...props} /></th>}
            {columns.map((column) => <Heading key={column.key} column={column} sort={props.sort} />)}
            {hasActions && <th role="columnheader" scope="col" class="acts"><span class="only-heard">Actions</span></th>}
          </tr>
        </thead>
        <tbody role="rowgroup" ref={body} onFocusIn={(event) => { active.current = keyAt(event.target); }}>
          {segments(view, rows.length, pinned).map((part) =>
            "gap" in part ? (
              <tr key={`gap${part.at}`} class="gap" aria-hidden="true">
                <td colSpan={width} style={{ height: `${part.gap}px` }} />
              </tr>
            ) : (
              <Row key={rowKey(rows[part.index] as R)} {...props} row={rows[part.index] as R} index={part.index} isWindowed={view.isOn} onPick={select} />
            ),
          )}
        </tbody>
      </table>
      {more && <p class="more"><button type="button" onClick={more}>Show more</button></p>}
    </div>
  );
}

/** The server looks at a bounded number at a time, so nothing so far is not nothing at all. */
function SoFar({ more }: { more: () => void }): JSX.Element {
  return (
    <div class="empty" role="status">
      <h2>Nothing that fits so far</h2>
      <p>Part of the list was searched, and there is more of it.</p>
      <p class="row"><button type="button" onClick={more}>Search further</button></p>
    </div>
  );
}

function Heading<R>({ column, sort }: { column: Column<R>; sort: TableProps<R>["sort"] }): JSX.Element {
  const { sortKey } = column;
  const isSorted = sort !== undefined && sortKey === sort.by;
  const isDown = sort?.isDescending ?? sort?.by !== "name";
  return (
    <th
      scope="col"
      role="columnheader"
      class={classes(column)}
      style={column.width ? { width: column.width } : undefined}
      aria-sort={isSorted ? (isDown ? "descending" : "ascending") : undefined}
    >
      {sort && sortKey ? (
        <button type="button" class="sort" onClick={() => sort.onSort(sortKey)}>
          {column.title}
          {isSorted && <Icon name={isDown ? "down" : "up"} size={12} />}
        </button>
      ) : (
        column.title
      )}
    </th>
  );
}

interface RowProps<R> extends TableProps<R> {
  row: R;
  index: number;
  isWindowed: boolean;
  onPick: (key: string, isRange: boolean) => void;
}

function Row<R>({ row, index, isWindowed, columns, rowKey, rowName = rowKey, href, selected, actions, onPick }: RowProps<R>): JSX.Element {
  const key = rowKey(row);
  const isChosen = selected?.value.has(key);
  const target = href?.(row);
  return (
    <tr
      role="row"
      data-key={key}
      tabIndex={target ? undefined : -1}
      class={isChosen ? "chosen" : undefined}
      aria-rowindex={isWindowed ? index + 2 : undefined}
      onPointerDown={(event) => { pressed = event.target; }}
      onClick={target ? (event) => openByClick(event, target) : undefined}
    >
      {selected && (
        <td role="cell" class="pick">
          <label>
            <input
              type="checkbox"
              aria-label={`Select ${rowName(row)}`}
              checked={isChosen}
              onClick={(event) => { event.stopPropagation(); onPick(key, event.shiftKey); }}
            />
          </label>
        </td>
      )}
      {columns.map((column, place) => {
        const content = column.render(row);
        return place === 0 ? (
          <th key={column.key} scope="row" role="rowheader" class={classes(column)}>
            {target ? <Link class="row-link" href={target}>{content}</Link> : content}
          </th>
        ) : (
          <td key={column.key} role="cell" class={classes(column)} data-label={column.title}>{content}</td>
        );
      })}
      {actions && <td role="cell" class="acts">{actions(row)}</td>}
    </tr>
  );
}

function PickAll<R>({ rows, rowKey, selected }: TableProps<R>): JSX.Element {
  const isAll = rows.every((row) => selected?.value.has(rowKey(row)));
  return (
    <label>
      <input
        type="checkbox"
        aria-label="Select all rows that are shown"
        checked={isAll}
        onChange={() => { if (selected) selected.value = new Set(isAll ? [] : rows.map(rowKey)); }}
      />
    </label>
  );
}

/** What the pointer went down on last. */
let pressed: EventTarget | null = null;

function isForControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("a, button, input, label, select, summary") !== null;
}

/** A click anywhere in a row opens it, unless it was meant for something there or marks text. */
function openByClick(event: MouseEvent, target: string): void {
  const hit = event.target as HTMLElement;
  // When a row moves between press and release, the browser takes the row itself for what was clicked.
  if (event.defaultPrevented || event.detail > 1 || isForControl(hit) || isForControl(pressed)) return;
  if (getSelection()?.toString()) return;
  if (event.metaKey || event.ctrlKey) window.open(target, "_blank");
  else go(target);
}

/** A table that does not fit scrolls inside its box; one that fits keeps its headings in sight. */
function useWideMark(box: { current: HTMLElement | null }, isFilled: boolean): void {
  useLayoutEffect(() => {
    const node = box.current;
    const table = node?.querySelector("table");
    if (!node || !table) return;
    const measure = (): void => {
      node.classList.toggle("is-wide", table.offsetWidth > node.clientWidth + 1);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(node);
    observer.observe(table);
    return () => observer.disconnect();
  }, [isFilled]);
}

/** A row that moves keeps the focus; when it goes away, the one in its place gets it, and is not lost. */
function useFocusKept<R>(body: { current: HTMLElement | null }, rows: R[], rowKey: (row: R) => string): void {
  const before = useRef(rows);
  // Read while drawing: the page still is as it was.
  const focused = document.activeElement;
  const key = focusedKey(body.current);
  const index = key === null ? -1 : before.current.findIndex((row) => rowKey(row) === key);
  useLayoutEffect(() => {
    before.current = rows;
    if (key === null || document.activeElement !== document.body) return;
    if (focused instanceof HTMLElement && focused.isConnected) focused.focus({ preventScroll: true });
    else focusRow(body.current, rows[Math.min(index, rows.length - 1)], rowKey);
  });
}

function focusRow<R>(body: HTMLElement | null, row: R | undefined, rowKey: (row: R) => string): void {
  const element = row === undefined ? null : rowElement(body, rowKey(row));
  (element?.querySelector<HTMLElement>("a.row-link") ?? element)?.focus({ preventScroll: true });
}

/** Who comes back to a list finds the row from which it was left. */
function usePlace(
  body: { current: HTMLElement | null },
  active: { current: string | null },
  wanted: { current: string | null },
  isFilled: boolean,
  reveal: (key: string) => void,
): void {
  useEffect(() => {
    if (!isFilled) return;
    const address = location.pathname + location.search;
    const place = places.get(address);
    const focused = document.activeElement;
    const isFree = focused === document.body || focused?.tagName === "H1";
    if (place && arrival.value === "back" && isFree) {
      scrollTo(0, place.scroll);
      wanted.current = place.key;
      reveal(place.key);
    }
    const node = body.current;
    const leave = (event: Event): void => {
      const key = keyAt(event.target) ?? active.current;
      if (key !== null) places.set(location.pathname + location.search, { key, scroll: scrollY });
    };
    node?.addEventListener("click", leave, true);
    node?.addEventListener("keydown", leave, true);
    return () => {
      node?.removeEventListener("click", leave, true);
      node?.removeEventListener("keydown", leave, true);
    };
  }, [isFilled]);
}

function focusedKey(body: HTMLElement | null): string | null {
  const focused = document.activeElement;
  return focused && body?.contains(focused) ? keyAt(focused) : null;
}

function keyAt(target: EventTarget | null): string | null {
  return target instanceof Element ? (target.closest<HTMLElement>("tr[data-key]")?.dataset["key"] ?? null) : null;
}

function rowElement(body: HTMLElement | null, key: string): HTMLElement | null {
  return body?.querySelector<HTMLElement>(`tr[data-key="${CSS.escape(key)}"]`) ?? null;
}

function classes<R>(column: Column<R>): string | undefined {
  return [column.align === "end" && "end", column.hideNarrow && "wide-only"].filter(Boolean).join(" ") || undefined;
}
