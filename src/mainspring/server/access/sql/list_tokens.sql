-- All tokens, the newest first: there are few.
select id, name, hash, san, scopes, created_at, created_by, expires_at, revoked_at,
  revoked_at is null and expires_at > now() as is_good
from mainspring.api_token
order by created_at desc, id
