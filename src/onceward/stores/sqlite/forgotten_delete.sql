-- Forget for good.
delete from onceward_forgotten where id in (select value from json_each(:ids))
