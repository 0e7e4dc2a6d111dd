-- Read which groups have messages behind a place, in the order of arrival.
select seq, group_name from dispatch_messages where seq > :after order by seq limit :limit
