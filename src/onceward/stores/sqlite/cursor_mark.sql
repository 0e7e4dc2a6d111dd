-- Nobody takes a cursor over while its worker holds the write lock, so there is nobody to be found by.
select :epoch where :name is not null and :worker is not null
