-- 64 random bits, from the server's cryptographic source: never reused, compared only for equality. A hash of a random
-- id, which has 122 of them at places of its own: drawing a second one costs as much again as all the rest.
create or replace function mainspring.token() returns bigint
  language sql volatile parallel safe
  as 'select uuid_hash_extended(gen_random_uuid(), 0)';
