-- Create a document, or overwrite it. Triggers count its version up and offer it. Answers the version.
insert into mainspring.document (kind, key, body)
values (%(kind)s::text, %(id)s::text, %(body)s::text::jsonb)
on conflict (kind, key) do update set body = excluded.body
returning version
