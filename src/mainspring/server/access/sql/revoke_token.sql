-- Revoke a token; one that is revoked already keeps its time. Rides the primary key.
update mainspring.api_token
set revoked_at = coalesce(revoked_at, now())
where id = %(id)s::text
returning id, name, hash, san, scopes, created_at, created_by, expires_at, revoked_at, false as is_good
