-- The kinds as they are registered.
select name, source, keys, version_column, capture, ignored, notify, pool
from mainspring.kind
order by name
