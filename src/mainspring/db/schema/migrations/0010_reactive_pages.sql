-- A check and a run find their rows by name only. A B-tree over ten thousand names is one page deeper than one over a hundred,
-- and they look into it for every param and every task; a bucket of a hash index is one page, however many names there are.
-- The primary keys stay: for uniqueness, for pages in order, for upserts.
create index reactive_task_by_name on mainspring.reactive_task using hash (task);
create index param_by_name on mainspring.param using hash (name);
drop index mainspring.uses_of_task;
create index uses_of_task on mainspring.uses using hash (task);
drop index mainspring.produces_of_task;
create index produces_of_task on mainspring.produces using hash (task);

-- The two stories were indexed by their number alone besides, which nobody asks for: one index less to write for every advance
-- and for every verdict.
alter table mainspring.param_log drop constraint param_log_pkey, add primary key (param, id);
drop index mainspring.param_log_of_param;
alter table mainspring.evaluation drop constraint evaluation_pkey, add primary key (task, id);
drop index mainspring.evaluation_of_task;
