-- The order in which keys came to be known is SQLite's own number of a row; there is nothing to make.
select 1;
