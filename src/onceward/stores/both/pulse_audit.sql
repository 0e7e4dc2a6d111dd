-- Return what is another when somebody acted in the console.
select max(id) from onceward_audit
