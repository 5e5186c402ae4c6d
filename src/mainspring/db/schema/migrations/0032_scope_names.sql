-- A scope may have a name, by which an operator, a handle or a step calls it off. Null: it has none.
alter table mainspring.scope add column name text collate "C";
