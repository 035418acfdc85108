-- A model over a mart of Vitrina's: how many films have which score.
select floor(f.rating)::int as score, count(*) as films
from {{ source('analytics', 'film_dim') }} f
where f.rating is not null
group by 1
