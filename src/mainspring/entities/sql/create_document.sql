-- Create a document where there is none. No row: there is one.
insert into mainspring.document (kind, key, body)
values (%(kind)s::text, %(id)s::text, %(body)s::text::jsonb)
on conflict (kind, key) do nothing
returning version
