-- Create documents, or overwrite them, in the order of their keys. Triggers count their versions up and offer them.
insert into mainspring.document (kind, key, body)
select %(kind)s::text, i.key, i.body::jsonb
from unnest(%(ids)s::text[], %(bodies)s::text[]) as i(key, body)
order by i.key
on conflict (kind, key) do update set body = excluded.body
