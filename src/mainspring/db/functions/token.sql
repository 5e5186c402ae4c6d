-- 64 random bits, from the server's cryptographic source: never reused, compared only for equality.
create or replace function mainspring.token() returns bigint
  language sql volatile parallel safe
  as $$
    select ('x' || left(right(replace(gen_random_uuid()::text, '-', ''), 14)
      || replace(gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint
  $$;
