-- All edges of a process: a range of the primary key.
select e.promise::text, e.task::text, e.kind::text
from mainspring.edge e
where e.process_id = %(id)s::uuid
