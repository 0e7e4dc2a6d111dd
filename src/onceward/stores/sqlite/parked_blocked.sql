-- Say which of these keys have a message parked, so that later ones must line up behind it.
select distinct key from onceward_parked
where cursor_name = :cursor and not alone and is_head and key in (select value from json_each(:keys))
