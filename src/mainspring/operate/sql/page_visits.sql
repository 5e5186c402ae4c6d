-- The page of visits after a key: how many it has and where it ends. Rides the primary key, the key alone.
select count(*) as count, max(p.key) as last
from (
  select v.key from mainspring.visit v where %(after)s::text is null or v.key > %(after)s::text order by v.key limit %(most)s::integer
) p
