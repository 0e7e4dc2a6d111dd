-- Nothing to change here: nobody takes a cursor over while its worker holds the file's write lock.
select 1;
