// Sheet: a small table that is only read. It looks like every table and has no keys, so that several of them
// can stand on one screen beside a list that is walked.

import type { JSX } from "preact";
import type { Column } from "./table";

interface Props<R> {
  label: string;
  columns: Column<R>[];
  rows: R[];
  rowKey: (row: R) => string;
}

export function Sheet<R>({ label, columns, rows, rowKey }: Props<R>): JSX.Element {
  const classOf = ({ align, hideNarrow }: Column<R>) => [align === "end" && "end", hideNarrow && "wide-only"].filter(Boolean).join(" ") || undefined;
  return (
    <div class="table-box">
      <table aria-label={label} role="table">
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => <th key={column.key} scope="col" role="columnheader" class={classOf(column)}>{column.title}</th>)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={rowKey(row)} role="row">
              {columns.map((column, place) =>
                place === 0 ? (
                  <th key={column.key} scope="row" role="rowheader" class={classOf(column)}>{column.render(row)}</th>
                ) : (
                  <td key={column.key} role="cell" class={classOf(column)} data-label={column.title}>{column.render(row)}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
