-- Nobody takes a cursor over while its worker holds the write lock, so there is nobody to be found by.
select :name
