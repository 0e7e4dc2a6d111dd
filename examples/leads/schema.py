"""The tables of the lead platform, on either engine.

`offers` is what intake writes and distribution reads; `assignments` and `charges` are the effects
that must happen once. Nothing here is unique that a careless worker could hide behind.
"""

from onceward import Onceward

ID = {
    "sqlite": "id integer primary key autoincrement",
    "postgres": "id bigint generated always as identity primary key",
}
#: Lets a reader on PostgreSQL know which rows are final.
XID = {"sqlite": "", "postgres": ", onceward_xid xid8 not null default pg_current_xact_id()"}
PLACE = {"sqlite": "id", "postgres": "onceward_xid, id"}


def create(ow: Onceward, buyers: dict[str, list[str]]) -> None:
    """Make the tables, and the buyers of every niche."""
    engine = ow.store.engine
    key, xid, place = ID[engine], XID[engine], PLACE[engine]
    with ow.transaction() as tx:
        for statement in (
            f"create table leads ({key}, niche text not null, contact text not null{xid})",
            f"create table offers ({key}, lead_id bigint not null, niche text not null{xid})",
            f"create table assignments ({key}, lead_id bigint, niche text, buyer text)",
            f"create table charges ({key}, lead_id bigint, buyer text, cents bigint)",
            "create table buyers (niche text, buyer text, served bigint, cents bigint)",
            f"create index offers_by_niche on offers (niche, {place})",
        ):
            tx.execute(statement)
        if engine == "postgres":
            tx.execute(f"create index leads_in_order on leads ({place})")
            tx.execute(f"create index offers_in_order on offers ({place})")
        for niche, names in buyers.items():
            for name in names:
                row = [niche, name, 0, 2500]
                tx.execute("insert into buyers values (?, ?, ?, ?)", row)
