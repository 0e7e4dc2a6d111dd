-- Note which process is a group's agent, or that there is none.
update dispatch_groups set agent = :agent::text where name = :name
