-- Make the first task of a process anew from what it was started with.
insert into mainspring.task (process_id, id, promise, actor, args, generation)
select id, root, root, type, start, generation
from mainspring.process
where id = %(id)s::uuid
on conflict do nothing
