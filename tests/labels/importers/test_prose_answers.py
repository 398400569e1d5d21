"""Answers in the words of many LLMs: which class each names, or that it names none.

"" means that the answer must get no class: it negates, contrasts, hedges between classes, refuses,
asks, or uses the word for something else. No answer may ever get another class than the one here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noisyteacher.labels.importers import AnswerReader, parse_classes

CLASSES = {
    "sentiment": "positive,negative,neutral",
    "topic": "World,Sports,Business,Sci/Tech",
    "intent": "card_arrival,lost_or_stolen_card,exchange_rate,top_up_failed,cash_withdrawal_charge",
    "yes": "yes,no",
    "many": "machine learning,web development,data science,computer vision,other",
}

ANSWERS = {
    "sentiment": """
        positive | The review has a positive tone.
        negative | The review has a negative tone.
        negative | The tone of this review is negative.
        positive | Sentiment: clearly positive!
        positive | Sentiment: overwhelmingly positive
        negative | The sentiment expressed here is clearly negative.
        negative | This is a negative review.
        positive | I'd label this one as positive.
        positive | I would classify this review as positive.
        neutral | The overall sentiment is neutral.
        neutral | It reads as neutral to me.
        positive | This text conveys a positive sentiment.
        negative | The author's sentiment is negative.
        negative | The reviewer expresses a negative sentiment.
        negative | The customer's tone is negative.
        positive | Overall, I think it's positive.
        positive | My answer is positive.
        positive | Label => positive
        negative | → negative
        negative | It is a strongly negative review because the battery died.
        positive | The writer's opinion is positive, since they loved the food.
        neutral | The statement is factual and therefore neutral.
        positive | Definitely positive.
        negative | Clearly negative, as the author complains about delays.
        positive | The sentiment of the given text is **positive**.
        positive | Based on the text, the sentiment is positive.
        negative | After reading the review, I conclude that the sentiment is negative.
        negative | This one's negative.
        negative | The user has a negative opinion of the product.
        positive | The speaker has a very positive attitude.
        positive | It has a positive sentiment.
        neutral | The passage has a neutral tone.
        negative | The review shows negative sentiment.
        positive | This would be a positive review.
        positive | The most appropriate label is positive.
        negative | I believe the correct answer is "negative".
        negative | The final answer is: negative
        positive | Sure! The sentiment is positive.
        positive | Certainly! This review is positive.
        negative | Here is my classification: negative.
        neutral | I'd go with neutral.
        neutral | I'd say neutral.
         | The review is not positive.
         | This isn't a negative review.
         | It is neither positive nor negative.
         | I can't tell whether it is positive or negative.
         | Is this positive?
         | The review starts positive but ends negative.
         | It lists the positive and negative aspects.
         | The patient tested positive for the virus.
         | A positive number of reviews.
         | Hardly positive.
         | It is far from positive.
         | The review is anything but positive.
         | I am not sure it is negative.
         | It could have been more positive.
         | Positive? No.
         | The sentiment is mixed.
         | I'm sorry, but I can't label this text as positive or negative.
         | If it were longer I would say positive.
         | The author denies that the film is negative.
         | It would be wrong to call this positive.
         | It lacks a positive tone.
         | The review has no negative tone.
         | The positive reviews outnumber the others.
         | This is less negative than the last one.
         | The sentiment is not clear.
         | It has a positive tone, but it's sarcastic.
         | It has a positive tone on the surface.
         | One would say positive, the author's tone is sarcastic though.
         | The review has a positive tone of voice but is negative.
         | Given that it is positive, negative would be odd.
         | Unless the user has a negative opinion, positive.
         | The user has a positive opinion on the food, a negative one on the service.
    """,
    "topic": """
        World | I would classify this as World.
        World | I would classify this as world news.
        Sports | This article is about sports.
        Sports | The topic is Sports.
        Sports | The article falls under the Sports category.
        Sports | The category that fits best is Sports.
        Business | This belongs in the Business section.
        Business | This headline belongs to Business.
        Sci/Tech | The best category for this article is Sci/Tech.
        Sci/Tech | This is a sci/tech article.
        Sci/Tech | This is a SciTech story.
        Business | It's a business story.
        Business | This is business news.
        World | This is a World news article.
        Sports | Category: Sports (the article describes a match)
        Sports | Topic - Sports
        Sports | I'd put it in Sports.
        Sports | The text should be categorized as Sports.
        World | Based on the content, this article would be classified under "World".
        Business | The news article belongs to the category of Business.
        Sports | The correct category is **Sports** because it talks about a football match.
        Sports | Sports, because it reports the result of a game.
        Sports | Not World but Sports.
        World | not Sports but World
        World | This is World, not Sports.
        Sports | It's Sports rather than Business.
        Business | The answer is Business, not Sports.
        Business | This one goes in Business.
        Sci/Tech | The article discusses a new chip, so it is Sci/Tech.
        Sci/Tech | This falls under Sci/Tech since it is about software.
        World | Given the options, World is the best fit.
        World | World is the most appropriate category.
        Sports | Sports is the right category here.
        Sports | Sports seems to be the best choice.
        Business | I choose Business.
        Business | I'd pick Business.
        World | My classification is World.
        World | The label for this headline is World.
        Sports | Output: Sports
        Sports | Therefore, the category is Sports.
         | World Cup
         | The worldwide market grew.
         | A world record was set.
         | The best in the world.
         | The sportswear company reported earnings.
         | Sports or Business?
         | It could be Sports or Business depending on the reader.
         | Neither Sports nor World.
         | None of these: World, Sports, Business, Sci/Tech.
         | The options are World, Sports, Business and Sci/Tech.
         | This is not a Sports article.
         | It isn't World.
         | This has nothing to do with Sports.
         | The article mentions Sports only in passing.
         | Is this Sports?
         | I'm unable to decide between World and Business.
         | Culture
         | The topic is Politics.
         | As an AI, I cannot classify this as World.
         | Everything except Business.
         | It is business as usual at the club.
         | Nobody in the world would call it news.
         | I would not put it under Sports.
         | If it is about a match, then Sports.
         | The author works in Business, the article is about music.
         | Mind your own business.
         | Sports? Maybe. World? Maybe.
         | It was labeled Sports by mistake.
         | I first thought Sports, but that is wrong.
         | The request has World in its title.
         | The user has Business in mind.
         | Although it is about Sports, the World is watching.
         | Given the options, neither Sports nor World.
    """,
    "intent": """
        card_arrival | card_arrival
        card_arrival | The intent is card_arrival.
        card_arrival | The intent of this message is "card arrival".
        card_arrival | The customer's intent is card_arrival.
        lost_or_stolen_card | This query falls under lost_or_stolen_card.
        lost_or_stolen_card | Intent: lost or stolen card
        lost_or_stolen_card | The user's query is about a lost or stolen card.
        exchange_rate | I would classify this as exchange_rate.
        exchange_rate | This is an exchange rate question.
        exchange_rate | `exchange_rate`
        top_up_failed | Top up failed.
        top_up_failed | The best matching intent is top_up_failed.
        top_up_failed | The correct intent label is "top_up_failed", because no money came.
        cash_withdrawal_charge | Predicted intent: cash_withdrawal_charge
        cash_withdrawal_charge | It matches the intent cash_withdrawal_charge.
        cash_withdrawal_charge | → cash_withdrawal_charge
         | The card arrived.
         | My top up did not fail.
         | card_arrival or exchange_rate?
         | card_payment_fee
         | The intent is not card_arrival.
         | Neither card_arrival nor exchange_rate.
         | I lost my card.
         | The exchange rates are fine.
         | This doesn't match exchange_rate.
    """,
    "yes": """
        yes | Yes.
        yes | Yes, it does.
        yes | Yes, because the text mentions it.
        yes | The answer is yes.
        yes | Answer: Yes
        no | No.
        no | No, it does not.
        no | The answer is no.
        no | Answer: No, because nothing supports it.
        no | My answer is "No".
        no | no
         | No idea.
         | I have no way to know.
         | Yes and no.
         | It depends.
         | Not sure.
         | Maybe yes, maybe no.
         | Nothing is said about it.
         | The text says no more than that, so it is hard to tell.
         | There is no answer.
    """,
    "many": """
        machine learning | The topic of this post is machine learning.
        machine learning | This question is about Machine Learning.
        machine learning | Category: machine-learning
        web development | It belongs to the web development category.
        web development | I'd classify it as Web Development.
        web development | This is a web development question.
        data science | The best label is data science.
        data science | Label: Data Science.
        computer vision | The correct class is computer_vision.
        computer vision | Computer vision, since it deals with images.
        computer vision | This would fall under computer vision.
        other | other
        other | Category: other
        other | The label is other.
         | machine vision
         | The machine is learning.
         | computer
         | It is about the development of the web.
         | On the other hand, it is unclear.
         | It is about machine learning and computer vision but mostly neither.
         | This is not web development.
         | Is it data science?
         | web
    """,
}


def rows() -> Iterator[tuple[str, str, str]]:
    for kind, table in ANSWERS.items():
        for line in table.strip("\n").splitlines():
            if line.strip():
                expected, answer = line.split("|", 1)
                yield kind, expected.strip(), answer.strip()


def test_there_are_enough_of_each_kind() -> None:
    every = list(rows())
    assert len(set(every)) == len(every) >= 150
    assert sum(not expected for _, expected, _ in every) >= 60


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_gets_the_class_that_it_names(kind: str) -> None:
    classes = parse_classes(CLASSES[kind])
    reader, names = AnswerReader(classes), tuple(classes)
    wrong = []
    for one, expected, answer in rows():
        if one == kind:
            found = [names[number] for number in reader.read(answer).classes]
            if len(found) > 1:  # a list of classes, which share the probability, is no wrong label
                found = []
            if found != ([expected] if expected else []):
                wrong.append((answer, expected, found))
    assert wrong == []
