-- What a client certificate's name may do. Rides api_token_san.
select id, name, hash, san, scopes, created_at, created_by, expires_at, revoked_at,
  revoked_at is null and expires_at > now() as is_good
from mainspring.api_token
where san = %(san)s::text and revoked_at is null
