-- SQLite's time comes with each statement, as :now, :boot and :wall; there is nothing to make.
select 1;
