-- The process that has a key. Rides process_one_per_key.
select id::text, state::text, start::text
from mainspring.process
where type = %(type)s::text and key = %(key)s::text
