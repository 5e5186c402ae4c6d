-- A new token, or a name that client certificates may show.
insert into mainspring.api_token (id, name, hash, san, scopes, created_by, expires_at)
values (%(id)s::text, %(name)s::text, %(hash)s::bytea, %(san)s::text, %(scopes)s::text[], %(created_by)s::text,
  now() + %(lifetime)s::interval)
returning id, name, hash, san, scopes, created_at, created_by, expires_at, revoked_at, true as is_good
