-- What an operation has done, in order, after a number; only what failed, if asked.
select number, queue, key, error
from mainspring.operation_item
where operation_id = %(id)s::bigint and number > %(after)s::bigint and (error is not null or not %(failed_only)s::boolean)
order by number
limit %(most)s::integer
