-- Say where the last move by hand has put a cursor: what it has read since lies behind that.
select to_position from cursor_history
where cursor_name = :name and (kind = 'seek' or kind = 'undo')
order by id desc limit 1
